package manifest

import "strings"

// RestoreMarker is the name, in the root of a workspace, of the file that a restore keeps
// there until it is done. Nothing of that name is saved or restored.
const RestoreMarker = ".snapctl-restore-incomplete"

// RestoreTemp starts the names of files that a restore writes before it renames them; 16
// hexadecimal digits follow.
const RestoreTemp = ".snapctl-tmp-"

// IsRestoreTemp reports whether a restore makes such names.
func IsRestoreTemp(name string) bool {
	digits, ok := strings.CutPrefix(name, RestoreTemp)
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

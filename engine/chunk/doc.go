// Package chunk cuts the content of one file into holes and data chunks.
//
// Holes come first and are canonical: the maximal runs of zero blocks of
// [BlockSize] bytes, aligned to the start of the file, whatever the filesystem
// allocated. A shorter block of zeros at the end of the file joins a hole that
// ends right before it. Between holes the content is cut where the content says
// so, by a Rabin fingerprint over a window of 64 bytes (Rabin, "Fingerprinting
// by random polynomials"; Muthitacharoen, Chen, Mazieres, "A low-bandwidth
// network file system"), at the places where restic/chunker cuts. Those include
// every long run of zeros, whose fingerprint is zero, hence holes first; cutting
// starts anew behind each of them.
//
// A [Cutter] cuts one file after the other; [FD] and [SparseFD] are files to
// read from.
package chunk

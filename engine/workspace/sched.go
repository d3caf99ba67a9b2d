package workspace

import "sync"

// task is a step of the walk.
type task struct {
	what taskKind
	dir  *dir
	from int // of openChild: index of the entry
	to   int // of readRun: the entries to read are dir.toRead[from:to]
}

type taskKind uint8

const (
	openChild taskKind = iota // open a subdirectory, list it and take its first batch
	readRun                   // read some files of a directory
	nextBatch                 // take the next batch of a huge directory
)

// scheduler holds what is to be done. Each worker pushes to and pops from its
// own stack; one without work takes the oldest task of another stack, which is
// the largest piece of the tree on offer. Chunks of large files go first: they
// hold buffers.
type scheduler struct {
	mu      sync.Mutex
	wake    *sync.Cond
	stacks  []stack
	chunks  []chunkTask // first in, first out; at most cap
	waiting int
	stopped bool
}

// stack is a deque: tasks are pushed and popped at the end, stolen at head.
type stack struct {
	tasks []task
	head  int
}

// chunksPerWorker bounds the chunks that wait. With two a worker finds the next
// one while the cutter is busy with its own.
const chunksPerWorker = 2

func newScheduler(workers int) *scheduler {
	s := &scheduler{stacks: make([]stack, workers)}
	if workers > 1 {
		s.chunks = make([]chunkTask, 0, chunksPerWorker*workers)
	}
	s.wake = sync.NewCond(&s.mu)
	return s
}

// push adds tasks to the stack of a worker; the last one is done first.
func (s *scheduler) push(worker int, tasks ...task) {
	s.mu.Lock()
	s.stacks[worker].tasks = append(s.stacks[worker].tasks, tasks...)
	if s.waiting > 0 {
		s.wake.Broadcast()
	}
	s.mu.Unlock()
}

// next waits for something to do. Both results are empty when the walk is over.
func (s *scheduler) next(worker int) (task, *chunkTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.stopped {
		if c, ok := s.popChunk(); ok {
			return task{}, &c
		}
		if t, ok := s.stacks[worker].pop(); ok {
			return t, nil
		}
		for i := range s.stacks {
			if t, ok := s.stacks[(worker+i)%len(s.stacks)].steal(); ok {
				return t, nil
			}
		}
		s.waiting++
		s.wake.Wait()
		s.waiting--
	}
	return task{}, nil
}

// stop ends the walk for all workers.
func (s *scheduler) stop() {
	s.mu.Lock()
	s.stopped = true
	s.wake.Broadcast()
	s.mu.Unlock()
}

// offer hands a chunk to whoever is free next, unless enough of them wait.
func (s *scheduler) offer(c chunkTask) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.chunks) == cap(s.chunks) {
		return false
	}
	s.chunks = append(s.chunks, c)
	if s.waiting > 0 {
		s.wake.Broadcast()
	}
	return true
}

// takeChunk returns a chunk that waits, if there is one.
func (s *scheduler) takeChunk() (chunkTask, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.popChunk()
}

func (s *scheduler) popChunk() (chunkTask, bool) {
	if len(s.chunks) == 0 {
		return chunkTask{}, false
	}
	c := s.chunks[0]
	s.chunks = append(s.chunks[:0], s.chunks[1:]...)
	return c, true
}

func (s *stack) pop() (task, bool) {
	n := len(s.tasks)
	if n == s.head {
		return task{}, false
	}
	t := s.tasks[n-1]
	s.tasks[n-1] = task{}
	s.tasks = s.tasks[:n-1]
	if len(s.tasks) == s.head {
		s.tasks, s.head = s.tasks[:0], 0
	}
	return t, true
}

func (s *stack) steal() (task, bool) {
	if len(s.tasks) == s.head {
		return task{}, false
	}
	t := s.tasks[s.head]
	s.tasks[s.head] = task{}
	s.head++
	if len(s.tasks) == s.head {
		s.tasks, s.head = s.tasks[:0], 0
	}
	return t, true
}

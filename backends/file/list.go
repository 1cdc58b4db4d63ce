package file

import (
	"cmp"
	"context"
	"os"
	"strings"
	"sync"
)

// List implements backends.Store. A record that cannot be read does not hide the others.
func (s *store) List(ctx context.Context) ([]string, error) {
	return inTime(ctx, new(sync.WaitGroup), func(context.Context) (names []string, unread error) {
		entries, err := os.ReadDir(s.dir)
		if err != nil {
			return nil, permanent(err)
		}
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), recordSuffix) || strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			name, err := s.jobOf(entry.Name())
			switch {
			case err != nil:
				unread = cmp.Or(unread, err)
			case name != "":
				names = append(names, name)
			}
		}
		return names, unread
	})
}

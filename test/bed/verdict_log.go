package bed

import (
	"encoding/json"
	"fmt"
	"io"
)

// WriteLog writes a log as JSON, so that it can be judged again.
func WriteLog(w io.Writer, l Log) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	if err := enc.Encode(l); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	return nil
}

// ReadLog reads what WriteLog wrote. A field that it does not know is an error: without it, the verdict would be about
// something else.
func ReadLog(r io.Reader) (Log, error) {
	var l Log
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return Log{}, fmt.Errorf("read the log: %w", err)
	}
	return l, nil
}

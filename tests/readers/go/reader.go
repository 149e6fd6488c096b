// What a program reads that has Go's encoding/json: as python_reader.py.
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
)

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      any             `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

type call struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

// As a tool declares what it takes.
type typed struct {
	Arguments struct {
		Path any `json:"path"`
		Key  any `json:"key"`
		Task any `json:"task"`
	} `json:"arguments"`
}

func (one typed) named() object {
	said := one.Arguments
	return object{"path": said.Path, "key": said.Key, "task": said.Task}
}

// A request in one struct: of two members of one name, what the first has said stays.
type whole struct {
	ID     any    `json:"id"`
	Method string `json:"method"`
	Params struct {
		Name      string `json:"name"`
		Arguments any    `json:"arguments"`
	} `json:"params"`
}

type object = map[string]any

type list struct {
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

func namesIn(result json.RawMessage) []string {
	var one list
	names := []string{}
	if json.Unmarshal(result, &one) == nil {
		for _, tool := range one.Tools {
			names = append(names, tool.Name)
		}
	}
	return names
}

func add(said object, name string, raw json.RawMessage) {
	var value any
	if raw != nil && json.Unmarshal(raw, &value) == nil {
		said[name] = value
	}
}

func callOf(params json.RawMessage) object {
	var one call
	if json.Unmarshal(params, &one) != nil {
		return nil
	}
	called := object{"name": one.Name, "arguments": one.Arguments}
	var declared typed
	if json.Unmarshal(params, &declared) == nil {
		named := object{}
		for name, value := range declared.named() {
			if value != nil {
				named[name] = value
			}
		}
		called["typed"] = named
	}
	return called
}

func seen(one message) object {
	said := object{"id": one.ID}
	if one.Method != "" {
		said["method"] = one.Method
	}
	add(said, "params", one.Params)
	add(said, "result", one.Result)
	add(said, "error", one.Error)
	if names := namesIn(one.Result); len(names) > 0 {
		said["listed"] = names
	}
	if one.Method == "tools/call" {
		if called := callOf(one.Params); called != nil {
			said["call"] = called
		}
	}
	return said
}

func read(found []object, raw []byte) []object {
	var one message
	if json.Unmarshal(raw, &one) != nil {
		return found
	}
	return append(found, seen(one))
}

func byLines(data []byte) []object {
	found := []object{}
	for _, line := range bytes.Split(data, []byte("\n")) {
		line = bytes.TrimSpace(line)
		var batch []json.RawMessage
		if len(line) > 0 && line[0] == '[' && json.Unmarshal(line, &batch) == nil {
			for _, raw := range batch {
				found = read(found, raw)
			}
		} else {
			found = read(found, line)
		}
	}
	return found
}

func byWholes(data []byte) []object {
	found := []object{}
	for _, line := range bytes.Split(data, []byte("\n")) {
		var one whole
		if json.Unmarshal(line, &one) != nil || one.Method != "tools/call" {
			continue
		}
		called := object{"name": one.Params.Name, "arguments": one.Params.Arguments}
		found = append(found, object{"id": one.ID, "method": one.Method, "call": called})
	}
	return found
}

func byDecoder(data []byte) []object {
	found := []object{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var one message
		err := decoder.Decode(&one)
		var unfit *json.UnmarshalTypeError
		if errors.As(err, &unfit) {
			continue
		}
		if err != nil {
			return found
		}
		found = append(found, seen(one))
	}
}

func byEvents(data []byte) []object {
	found := []object{}
	var said [][]byte
	name := ""
	for _, line := range bytes.SplitAfter(data, []byte("\n")) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		line = bytes.TrimRight(line, "\r\n")
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			if len(said) > 0 && (name == "" || name == "message") {
				found = read(found, bytes.Join(said, []byte("\n")))
			}
			said, name = nil, ""
		case string(field) == "data":
			said = append(said, value)
		case string(field) == "event":
			name = string(value)
		}
	}
	return found
}

func main() {
	input := bufio.NewReader(os.Stdin)
	output := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(output)
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			return
		}
		mode, said, _ := strings.Cut(strings.TrimSpace(line), " ")
		data, _ := hex.DecodeString(strings.ReplaceAll(said, ",", ""))
		switch mode {
		case "server":
			encoder.Encode(object{
				"lines": byLines(data), "wholes": byWholes(data), "decoder": byDecoder(data),
			})
		case "client":
			encoder.Encode(object{"lines": byLines(data), "decoder": byDecoder(data)})
		case "body":
			encoder.Encode(object{"body": read([]object{}, data)})
		default:
			encoder.Encode(object{"events": byEvents(data)})
		}
		output.Flush()
	}
}

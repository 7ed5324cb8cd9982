// A load for tests in the guest: waits for a line, then holds so many MiB in its heap.
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	mebibytes, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	line := make([]byte, 1)
	os.Stdin.Read(line)
	held := make([][]byte, mebibytes)
	for i := range held {
		held[i] = make([]byte, 1<<20)
		for page := 0; page < len(held[i]); page += 4096 {
			held[i][page] = 1
		}
	}
	fmt.Println("full", len(held))
	os.Stdin.Read(line)
	fmt.Println(held[0][0])
}

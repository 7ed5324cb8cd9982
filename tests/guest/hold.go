// A load for tests in the guest: is told by lines how many MiB it shall hold in its heap.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
)

func main() {
	fmt.Println("ready")
	var held [][]byte
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		wanted, err := strconv.Atoi(lines.Text())
		if err != nil {
			panic(err)
		}
		for len(held) > wanted {
			held[len(held)-1] = nil
			held = held[:len(held)-1]
		}
		for len(held) < wanted {
			block := make([]byte, 1<<20)
			for page := 0; page < len(block); page += 4096 {
				block[page] = 1
			}
			held = append(held, block)
		}
		fmt.Println("at", len(held))
	}
}

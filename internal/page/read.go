package page

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A Page is a file of the documentation.
type Page struct {
	Path string // below the root, with slashes
	Text string
}

// Read reads all pages below the root of the repository, except those written for tests and those of foreign packages.
func Read(root string) (pages []Page, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "node_modules" ||
			strings.HasPrefix(entry.Name(), ".git")) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		pages = append(pages, Page{filepath.ToSlash(below), string(text)})
		return err
	})
	return pages, err
}

// A Block is a block of code.
type Block struct {
	Language string // as the fence names it; "indented" if there is no fence
	Name     string // what follows the language, if anything
	Text     string
	Line     int // line of its first line, from 1
}

var (
	fenced   = regexp.MustCompile("(?ms)^```(\\w*) ?([^\n]*)\n(.*?)^```$")
	indented = regexp.MustCompile(`(?m)(?:^    .*\n)+`)
	inline   = regexp.MustCompile("`([^`\n]+)`")
)

// Blocks returns the blocks of the page in their order, the indented ones last.
func (p Page) Blocks() (blocks []Block) {
	for _, m := range fenced.FindAllStringSubmatchIndex(p.Text, -1) {
		blocks = append(blocks, Block{p.Text[m[2]:m[3]], p.Text[m[4]:m[5]], p.Text[m[6]:m[7]], p.line(m[6])})
	}
	rest := p.unfenced()
	for _, m := range indented.FindAllStringIndex(rest, -1) {
		text := strings.ReplaceAll("\n"+rest[m[0]:m[1]], "\n    ", "\n")[1:]
		blocks = append(blocks, Block{"indented", "", text, p.line(m[0])})
	}
	return blocks
}

func (p Page) line(offset int) int { return 1 + strings.Count(p.Text[:offset], "\n") }

// unfenced returns the page with its fenced blocks replaced by empty lines.
func (p Page) unfenced() string {
	return fenced.ReplaceAllStringFunc(p.Text, func(b string) string {
		return strings.Repeat("\n", strings.Count(b, "\n"))
	})
}

// Prose returns the page without its fenced blocks and inline code.
func (p Page) Prose() string { return inline.ReplaceAllString(p.unfenced(), "") }

// Code returns the inline code of the page.
func (p Page) Code() (code []string) {
	for _, m := range inline.FindAllStringSubmatch(p.unfenced(), -1) {
		code = append(code, m[1])
	}
	return code
}

// Commands returns the lines that a reader may paste into a shell, without comments, and the inline code, which may be
// commands too.
func (p Page) Commands() (lines []string) {
	for _, b := range p.Blocks() {
		if b.Language != "sh" && b.Language != "console" && b.Language != "indented" {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", " ")) {
			command, asked := strings.CutPrefix(line, "$ ")
			if b.Language == "console" && !asked {
				continue // output of the command
			}
			command, _, _ = strings.Cut(command, " #")
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	return append(lines, p.Code()...)
}

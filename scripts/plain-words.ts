// Reports words that made comments, messages and documentation hard to read: `npm run words`. `npm run check` prints them too, and fails for none.
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Words that made comments and messages hard to read, and what to write instead. */
const plainWords: Readonly<Record<string, string>> = {
  'who|whom|whoever': '"a client that" or "the caller"; `who` is for people',
  whose: '"with", "that has" or two sentences; `whose` is for people',
  told: '"reported" or "notified", or the message itself',
  'dear|dearer|dearest': '"expensive"',
  anew: '"again"',
  'mend|mends|mended|mending': '"fix"',
  'wish|wishes|wished': '"constraint"',
  beside: '"with", "during" or "next to"',
  somebody: '"a customer", "another program" or the one that is meant',
}

/** Places where such a word is right. */
const allowed: readonly { file: RegExp; line: RegExp; reason: string }[] = [
  { file: /^src\/wire\/demo-model\/corpus\.txt$/, line: /./, reason: 'the text that the demo model recites' },
  { file: /^src\/wire\/api\/models\.ts$/, line: /dearest: /, reason: 'a field of GET /v1/models' },
  { file: /^docs\/api\.md$/, line: /`dearest`|"dearest": /, reason: 'a field of GET /v1/models' },
]

/** `who`, `whom` and `whose` after a word for people, also at the start of the next line of a comment. */
const aboutPeople =
  /\b(?:customer|driver|everyone|operator|owner|party|people|person|member|reader|someone|user)s?,?\s+(?:[*/-]+\s+)?who(?:m|se)?\b/gi
/** Whole words only, neither parts of identifiers nor properties. */
const anyWord = new RegExp(`(?<![\\w$.-])(?:${Object.keys(plainWords).join('|')})(?![\\w$-])`, 'gi')

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (file: string) => readFileSync(root + file, 'utf8')
const filesOf = (...paths: string[]) => paths.flatMap(each => globSync(each, { cwd: root }))
/** What users and maintainers read. */
const files = filesOf(
  'src/**/*.*',
  'console/src/**/*.*',
  'bin/*',
  'scripts/*.*',
  'sql/**/*.sql',
  'docs/**/*.md',
  'README.md',
)
const tests = filesOf('{test,sim,bench}/**/*.ts', 'bench/README.md').filter(
  file => !file.endsWith('plain-words.test.ts'),
)

/** Returns a line of advice for each word in `text` that could be plainer. */
export function adviceOn(file: string, text: string): string[] {
  const lines = text.split('\n')
  // The replacement has the same length and line breaks, so that the line numbers stay right.
  const checked = text.replace(aboutPeople, match => match.replace(/\S/g, ' '))
  return [...checked.matchAll(anyWord)].flatMap(({ 0: word, index }) => {
    const at = text.slice(0, index).split('\n').length
    if (allowed.some(each => each.file.test(file) && each.line.test(lines[at - 1]!))) return []
    const [, instead] = Object.entries(plainWords).find(([words]) => words.split('|').includes(word.toLowerCase()))!
    return [`${file}:${at}: "${word}": write ${instead}`]
  })
}

/** Advice on all sources, tests and pages, such as `docs/api.md:12: "whose": write ...`. */
export function adviceOnWords(): readonly string[] {
  return [
    ...files.filter(file => file !== 'scripts/plain-words.ts').flatMap(file => adviceOn(file, read(file))),
    ...tests.flatMap(file => adviceOn(file, read(file))).filter(line => !/: "(?:whose|dearest)": /.test(line)),
  ]
}

if (import.meta.main) for (const line of adviceOnWords()) console.log(line)

// Sentences for people, with codes, so that pages can show them in other languages. The English ones stand in a table
// next to the code that uses them; console/texts-of-codes.ts lists the tables.

/** English sentences by their codes. `{name}` stands for a value. */
export type Sentences = Readonly<Record<string, string>>

/** A sentence for programs that show it in another language. */
export interface CodedSentence {
  readonly code: string
  readonly values: Readonly<Record<string, string | number>>
}

/** One or several sentences: in English, and by their codes. */
export interface Said {
  readonly text: string
  readonly codes: readonly CodedSentence[]
}

type NamesIn<Text extends string> = Text extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never

/** The values that a text needs, so that the compiler finds missing ones. */
type ValuesOf<Text extends string> = [NamesIn<Text>] extends [never]
  ? []
  : [values: Readonly<Record<NamesIn<Text>, string | number>>]

/** Returns the function that says the sentences of a table. */
export function sentencesOf<const Table extends Sentences>(table: Table) {
  return <Code extends keyof Table & string>(code: Code, ...given: ValuesOf<Table[Code]>): Said => {
    const [values = {}]: readonly CodedSentence['values'][] = given
    return { text: filled(table[code] ?? code, values), codes: [{ code, values }] }
  }
}

function filled(text: string, values: CodedSentence['values']): string {
  return text.replaceAll(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole))
}

/** Joins sentences with a blank. */
export function joined(...said: readonly Said[]): Said {
  return { text: said.map(({ text }) => text).join(' '), codes: said.flatMap(({ codes }) => codes) }
}

/** Returns the function that finds sentences of a table in a text that was stored. It finds none if somebody else wrote the text. */
export function sentencesIn(table: Sentences) {
  const patterns = Object.entries(table).map(([code, text]) => ({ code, pattern: patternOf(text) }))
  const find = (sentence: string): CodedSentence[] =>
    patterns
      .flatMap(({ code, pattern }) => {
        const found = pattern.exec(sentence)
        return found === null ? [] : [{ code, values: { ...found.groups } }]
      })
      .slice(0, 1)
  return (text: string | null): CodedSentence[] => {
    if (text === null) return []
    const sentences = text.split(/(?<=\.) (?=[A-Z])/).map(find)
    // A text of the table can have several sentences, and so can a value.
    return sentences.every(found => found.length > 0) ? sentences.flat() : find(text)
  }
}

function patternOf(text: string): RegExp {
  const parts = text.split(/\{(\w+)\}/).map((part, index) => (index % 2 === 0 ? RegExp.escape(part) : `(?<${part}>.+)`))
  return new RegExp(`^${parts.join('')}$`, 's')
}

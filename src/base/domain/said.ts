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

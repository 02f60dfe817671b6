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
  // The fixed parts stand at even places, the names of the values between them.
  const templates = Object.entries(table).map(([code, text]) => ({ code, parts: text.split(/\{(\w+)\}/) }))
  const find = (sentence: string): CodedSentence[] => {
    for (const { code, parts } of templates) {
      const values = valuesIn(sentence, parts)
      if (values !== null) return [{ code, values }]
    }
    return []
  }
  return (text: string | null): CodedSentence[] => {
    if (text === null) return []
    const sentences = text.split(/(?<=\.) (?=[A-Z])/).map(find)
    // A text of the table can have several sentences, and so can a value.
    return sentences.every(found => found.length > 0) ? sentences.flat() : find(text)
  }
}

/**
 * Returns the values in a sentence of these parts, none of them empty; null if it is another sentence. Each part is taken where
 * it comes first, so the time is linear, which a pattern with several gaps does not promise.
 */
function valuesIn(sentence: string, [first = '', ...rest]: readonly string[]): CodedSentence['values'] | null {
  if (!sentence.startsWith(first)) return null
  const values: Record<string, string> = {}
  let start = first.length
  for (let index = 0; index < rest.length; index += 2) {
    const [name = '', part = ''] = rest.slice(index)
    const isLast = index + 2 === rest.length
    const end = isLast ? sentence.length - part.length : sentence.indexOf(part, start + 1)
    if (end <= start || !sentence.startsWith(part, end)) return null
    values[name] = sentence.slice(start, end)
    start = end + part.length
  }
  return start === sentence.length ? values : null
}

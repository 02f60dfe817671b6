/**
 * A message as Lingui compiles it: text, `[name]` for a value, `[name, 'plural', cases]`, and `#` for the number of the
 * plural around it. The build compiles all of them, so that a browser needs neither the compiler nor what else Lingui can do.
 */
export type Message = readonly (string | readonly [name: string, type?: 'plural', cases?: Cases])[]
type Cases = Readonly<Record<string, Message>> & { readonly other: Message }
export type Values = Readonly<Record<string, unknown>>

/** What the macros of Lingui become; see texts-plugin.ts. */
export interface Descriptor {
  readonly id: string
  /** English. */
  readonly message: Message
  readonly values?: Values
}

/** Set by the file of a language, which the page loads before this script. Without one the console speaks English. */
declare global {
  var switchyardTexts:
    | {
        readonly language: string
        readonly messages: Readonly<Record<string, Message>>
        /** Words of codes of the API; see code-text.ts. */
        readonly codes: Readonly<Record<string, string>>
        /** Sentences of the API by their codes. */
        readonly sentences: Readonly<Record<string, Message>>
      }
    | undefined
}

const texts = globalThis.switchyardTexts

/** Such as `en` or `zh-Hans`. */
export const language = texts?.language ?? 'en'

/**
 * The locale of numbers and dates: the browser's, if it has the language of the texts. Otherwise words such as "21 Nov"
 * would stand in texts of another language.
 */
export const formatLocale: string =
  [...('document' in globalThis ? navigator.languages : []), 'en-GB'].find(
    tag => tag.split('-')[0] === language.split('-')[0],
  ) ?? language

const rules = new Intl.PluralRules(language)
const whole = new Intl.NumberFormat(formatLocale)

export const i18n = {
  /** The text of a descriptor in the language of the page. */
  _(descriptor: Descriptor): string {
    return joinedText(partsOf(descriptor))
  },
}

/** A message with its values, as text. */
export function messageText(message: Message, values: Values): string {
  return joinedText(parts(message, values))
}

function joinedText(found: Iterable<Part>): string {
  return [...found].map(part => (typeof part === 'string' ? part : (part.value ?? ''))).join('')
}

/** Splits a text into what the message says, and values that are in it. */
export function partsOf({ id, message, values = {} }: Descriptor): Iterable<Part> {
  return parts(texts?.messages[id] ?? message, values)
}

type Part = string | { readonly value: unknown }

function* parts(message: Message, values: Values, count?: number): Generator<Part> {
  for (const token of message) {
    if (token === '#' && count !== undefined) yield whole.format(count)
    else if (typeof token === 'string') yield token
    else {
      const [name, , cases] = token
      const value = values[name]
      if (cases === undefined) yield { value }
      else
        yield* parts(cases[Number(value)] ?? cases[rules.select(Number(value))] ?? cases.other, values, Number(value))
    }
  }
}

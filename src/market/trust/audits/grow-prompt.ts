import { drawOne } from '../../../base/runtime/collections.ts'
import type { Message } from './replay.ts'

export interface GrowDeps {
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Texts of the operator. Empty: prompts are about random words instead. */
  readonly corpus: readonly string[]
  /** Draws words of any language. */
  readonly drawWords: (count: number) => readonly string[]
}

/** Asks a server of the operator. Null: it did not answer. */
export type AskWriter = (instruction: string) => Promise<string | null>

/**
 * Lets a reference write the messages of a request. It is asked for one in the manner of three passages of the corpus,
 * or about random words. So no text of this program reaches a hoster, and no text of the corpus. Null: it wrote nothing
 * that can be used.
 */
export async function growPrompt(deps: GrowDeps, ask: AskWriter): Promise<readonly Message[] | null> {
  const passages = drawPassages(deps)
  const instruction = passages.length > 0 ? imitate(passages) : invent(deps)
  const hasSystem = deps.random() < SYSTEM_PART
  const written = await ask(hasSystem ? `${instruction} ${WITH_SYSTEM}` : instruction)
  const parts = written === null ? [] : cleanText(written).split(DIVIDER).slice(0, 2).map(cleanText)
  const isCopied = (part: string) =>
    sharesWords(part, instruction, ECHOED_WORDS) || passages.some(passage => sharesWords(part, passage, COPIED_WORDS))
  const content = parts.at(-1)
  if (content === undefined || parts.some(part => part === '' || part.length > LENGTH_MAX || isCopied(part)))
    return null
  return [...parts.slice(0, -1).map(system => ({ role: 'system', content: system })), { role: 'user', content }]
}

/** Lets a reference write what a person says next in a conversation. Null: it wrote nothing that can be used. */
export async function growReply(messages: readonly Message[], ask: AskWriter): Promise<string | null> {
  const said = messages.filter(({ role }) => role !== 'system').map(({ role, content }) => `[${role}]\n${content}`)
  const written = await ask(`${REPLY}\n\n${said.join('\n\n')}`)
  const reply = written === null ? '' : cleanText(written)
  return reply === '' || reply.length > LENGTH_MAX || sharesWords(reply, REPLY, ECHOED_WORDS) ? null : reply
}

/** The part of the requests that begin with instructions of an application. */
const SYSTEM_PART = 0.35
const LENGTH_MAX = 12_000
/** A text with so many words in a row of the instruction repeats it. */
const ECHOED_WORDS = 5
/** And with so many of a passage, the passage. */
const COPIED_WORDS = 10

const ONLY = 'Answer with nothing but that text: no introduction, no quotation marks, no comment.'
const WITH_SYSTEM =
  'Put before it, followed by a line that is only ===, the instructions of an application in which the message could be ' +
  'written: one to six sentences that tell the assistant its task and style.'
const DIVIDER = /^===[ \t]*$/m
const REPLY = `A person talks with an assistant. Write the next message of the person: a question, a correction or another request, in the language and style of the messages before. ${ONLY}`

function imitate(passages: readonly string[]): string {
  const quoted = passages.map(passage => `<passage>\n${passage}\n</passage>`).join('\n')
  return `${quoted}\nWrite one new message of a person to an assistant in the manner of these passages: the same field, language, length and style, but another matter. If they contain material such as code, tables or letters, include some of the same kind. ${ONLY}`
}

function invent({ random, drawWords }: GrowDeps): string {
  const pick = <Item>(items: readonly Item[]) => drawOne(items, random)
  const words = drawWords(2 + Math.floor(random() * 3)).join(', ')
  return `Write a message of a person to an assistant that has to do with some of these words: ${words}. Language: ${pick(languages)}. Length: ${pick(lengths)}. Tone: ${pick(tones)}. It is ${pick(kinds)}. ${ONLY}`
}

const languages = [
  ...['English', 'English', 'English', 'English', 'English', 'English', 'English', 'English', 'English'],
  ...['Spanish', 'German', 'French', 'Portuguese', 'Chinese', 'Japanese', 'Russian', 'Italian', 'Polish', 'Hindi'],
]
const lengths = ['one line', 'one line', 'two sentences', 'a paragraph', 'three paragraphs', 'a page with pasted text']
const tones = ['plain', 'hurried, with abbreviations', 'polite', 'precise', 'chatty', 'annoyed', 'like a command']
const kinds = [
  ...['a question of facts', 'a request for code', 'a question about an error message, which is quoted'],
  ...['a text to be summarised, with the text', 'a text to be translated, with the text', 'a request for advice'],
  ...['an order for a text such as a mail or a description', 'data to be put into JSON, with the data'],
  ...['a calculation', 'a comparison of options', 'a text to be corrected, with the text', 'a request for ideas'],
]

const PASSAGES = 3
const PASSAGE_LENGTH_MAX = 1_500

function drawPassages({ corpus, random }: GrowDeps): readonly string[] {
  if (corpus.length === 0) return []
  return Array.from({ length: PASSAGES }, () => {
    const text = drawOne(corpus, random)
    const start = Math.floor(random() * Math.max(0, text.length - PASSAGE_LENGTH_MAX))
    const line = start === 0 ? 0 : text.indexOf('\n', start) + 1
    return text.slice(line, line + PASSAGE_LENGTH_MAX).trim()
  })
}

const quotes = ['""', "''", '“”', '„“', '«»', '「」', '``'] as const

/** Removes what models add around a text that they were asked for: thoughts, an introduction and quotation marks. */
export function cleanText(written: string): string {
  let text = (written.split('</think>').at(-1) ?? '').trim()
  const first = text.indexOf('\n')
  if (first > 0 && first < 80 && text.slice(0, first).trimEnd().endsWith(':') && text[first + 1] === '\n') {
    text = text.slice(first).trim()
  }
  const inner = text.slice(1, -1)
  const isQuoted = quotes.some(
    ([open = '', close]) => text[0] === open && text.at(-1) === close && !inner.includes(open),
  )
  return isQuoted ? inner.trim() : text
}

/** Whether a text has so many words in a row of another, in any case. */
export function sharesWords(text: string, other: string, count: number): boolean {
  const runsOf = (written: string) => {
    const words = written.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
    return words.slice(count - 1).map((_, at) => words.slice(at, at + count).join(' '))
  }
  const known = new Set(runsOf(other))
  return runsOf(text).some(run => known.has(run))
}

import type { ChunkDelta } from '../../base/domain/completion.ts'
import { eachGeneratedText } from './bill.ts'

/**
 * Where the parts of an answer lie in its generated text: the reasoning, the content and the calls of each choice. A stream mixes
 * them: pieces of several choices, or of several calls, arrive in turns.
 */
export class AnswerParts {
  #length = 0
  /** From and to of each piece, by part. */
  readonly #pieces = new Map<string, number[]>()

  /** Adds content of the first choice. */
  addText(text: string): void {
    this.#add('0 content', text)
  }

  /** Adds a delta or message of a choice. */
  add(choice: number, delta: ChunkDelta): void {
    eachGeneratedText(delta, (text, part, call) => this.#add(`${choice} ${call ?? ''}${part}`, text))
  }

  /** Cuts the generated text of the whole answer into its parts, in the order of their first pieces. */
  of(text: string): string[] {
    return Array.from(this.#pieces.values(), pieces => {
      let part = ''
      for (let at = 0; at < pieces.length; at += 2) part += text.slice(pieces[at], pieces[at + 1])
      return part
    })
  }

  #add(part: string, { length }: string): void {
    if (length === 0) return
    const from = this.#length
    this.#length += length
    const pieces = this.#pieces.get(part)
    if (pieces === undefined) this.#pieces.set(part, [from, this.#length])
    else if (pieces.at(-1) === from) pieces[pieces.length - 1] = this.#length
    else pieces.push(from, this.#length)
  }
}

import { type AskWriter, type GrowDeps, growPrompt } from './grow-prompt.ts'
import type { Message } from './replay.ts'

/** So many prompts wait to be sent: a request then says nothing about when its text was written. */
const STOCK_MAX = 12
/** Growing is tried so often for each prompt that is taken, until the stock is full. */
const TRIES = 2

/** Prompts that references have written, of this process. Each is sent to one hoster. */
export class PromptStock {
  readonly #prompts: (readonly Message[])[] = []

  /** Takes one at random. Null: the reference has written none. */
  async take(deps: GrowDeps, ask: AskWriter): Promise<readonly Message[] | null> {
    for (let tries = 0; tries < TRIES && this.#prompts.length < STOCK_MAX; tries++) {
      const grown = await growPrompt(deps, ask)
      if (grown !== null) this.#prompts.push(grown)
    }
    return this.#prompts.splice(Math.floor(deps.random() * this.#prompts.length), 1)[0] ?? null
  }
}

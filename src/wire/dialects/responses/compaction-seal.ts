import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { invalidField } from '../json/body-refusal.ts'

const PREFIX = 'sy1.compaction.'

/** Stands before a summary, so that the model does not take it for words of the user. */
const INTRODUCTION = 'The conversation before this point was compacted. This is its summary:\n\n'

/** Authenticated encryption with a key of the installation. */
export interface Sealing {
  seal(text: string): Buffer
  /** Throws if a byte was changed. */
  open(sealed: Buffer): string
}

/**
 * Seals the summaries of compacted conversations. Clients keep them and send them back. Every node of an installation
 * has the same key, so any of them opens a summary, for servers of every dialect.
 */
export class CompactionSeal {
  readonly #sealing: Sealing

  constructor(sealing: Sealing) {
    this.#sealing = sealing
  }

  seal(summary: string): string {
    return PREFIX + this.#sealing.seal(summary).toString('base64url')
  }

  /**
   * Replaces the compaction items that this gateway made by messages with their summaries. Those of other makers stay
   * as they are. Throws `invalid_value` for one that was changed.
   */
  openItems(items: readonly unknown[]): readonly unknown[] {
    if (!items.some(isOwnCompaction)) return items
    return items.map((item, i) => (isOwnCompaction(item) ? this.#open(item, `input[${i}].encrypted_content`) : item))
  }

  #open({ encrypted_content: sealed }: OwnCompaction, param: string): JsonObject {
    let summary: string
    try {
      // Its bytes are authenticated, so they are a text that this gateway has written.
      summary = this.#sealing.open(Buffer.from(sealed.slice(PREFIX.length), 'base64url'))
    } catch {
      throw invalidField(param, 'what POST /v1/responses/compact of this server has returned, unchanged', sealed)
    }
    return { type: 'message', role: 'user', content: [{ type: 'input_text', text: INTRODUCTION + summary }] }
  }
}

interface OwnCompaction extends JsonObject {
  readonly encrypted_content: string
}

function isOwnCompaction(item: unknown): item is OwnCompaction {
  if (!isJsonObject(item) || item.type !== 'compaction') return false
  return typeof item.encrypted_content === 'string' && item.encrypted_content.startsWith(PREFIX)
}

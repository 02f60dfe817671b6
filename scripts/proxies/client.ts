import { Agent, fetch, type Response } from 'undici'

const ANSWER_MS_MAX = 60_000
const MAX_TOKENS = 100

/** What one request asks for. */
export interface Question {
  readonly model: string
  readonly stream: boolean
  readonly prompt: string
}

/** A customer with connections of its own, which are kept open as those of the vendors' SDKs are. */
export class Client {
  readonly #origin: string
  readonly #key: string
  readonly #connections = new Agent()

  constructor(origin: string, key: string) {
    this.#origin = origin
    this.#key = key
  }

  /** Rejects unless the answer begins with a status of success. */
  async ask({ model, stream, prompt }: Question): Promise<Response> {
    const response = await fetch(`${this.#origin}/v1/chat/completions`, {
      dispatcher: this.#connections,
      method: 'POST',
      headers: { authorization: `Bearer ${this.#key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, stream, max_tokens: MAX_TOKENS, messages: [{ role: 'user', content: prompt }] }),
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    })
    if (!response.ok) throw new Error(`status ${response.status}: ${await response.text()}`)
    return response
  }

  close(): Promise<void> {
    return this.#connections.close()
  }
}

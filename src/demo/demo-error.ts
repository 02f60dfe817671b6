/** A request the demo refuses, in the words of an OpenAI error body. */
export class DemoError extends Error {
  readonly status: number
  readonly param: string | null
  readonly code: string | null

  constructor(status: number, message: string, more: { param?: string | null; code?: string | null } = {}) {
    super(message)
    this.name = 'DemoError'
    this.status = status
    this.param = more.param ?? null
    this.code = more.code ?? null
  }

  /** `{"error":{...}}` as text. */
  body(): string {
    const type = this.status >= 500 ? 'server_error' : 'invalid_request_error'
    return JSON.stringify({ error: { message: this.message, type, param: this.param, code: this.code } })
  }
}

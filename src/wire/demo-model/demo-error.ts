/** An error response of the demo, in the shape of OpenAI's error body. */
export class DemoError extends Error {
  readonly status: number
  readonly param: string | null
  readonly code: string | null

  constructor(status: number, message: string, details: { param?: string | null; code?: string | null } = {}) {
    super(message)
    this.name = 'DemoError'
    this.status = status
    this.param = details.param ?? null
    this.code = details.code ?? null
  }

  /** Returns `{"error":{...}}` as JSON text. */
  body(): string {
    const type = this.status >= 500 ? 'server_error' : 'invalid_request_error'
    return JSON.stringify({ error: { message: this.message, type, param: this.param, code: this.code } })
  }
}

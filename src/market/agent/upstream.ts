import type { Agent, ClientRequest, IncomingMessage } from 'node:http'
import * as https from 'node:https'
import { http } from '../../base/runtime/node-http.ts'

/** The one model server of an agent. */
export interface Upstream {
  /** Ends in `/v1`, without a slash. */
  readonly baseUrl: string
  readonly key: string | null
}

export interface UpstreamCall {
  /** Below `baseUrl`: `/chat/completions`. */
  readonly path: string
  readonly accept: string
  readonly body: Buffer
}

/** Sends requests to the model server and keeps its connections. */
export class UpstreamServer {
  readonly #upstream: Upstream
  readonly #isSecure: boolean
  readonly #agent: Agent

  constructor(upstream: Upstream) {
    this.#upstream = upstream
    this.#isSecure = upstream.baseUrl.startsWith('https:')
    this.#agent = this.#isSecure ? new https.Agent({ keepAlive: true }) : new http.Agent({ keepAlive: true })
  }

  /** Starts a request. Calls exactly one of the functions. The returned function aborts it, at any time. */
  send(
    call: UpstreamCall,
    onResponse: (response: IncomingMessage) => void,
    onError: (error: Error) => void,
  ): () => void {
    let isAborted = false
    let request: ClientRequest
    const start = (isRetry: boolean) => {
      let hasResponse = false
      request = this.#request(call)
      request
        .once('response', response => {
          hasResponse = true
          onResponse(response)
        })
        .on('error', (error: NodeJS.ErrnoException) => {
          if (isAborted || hasResponse) return
          // The server was closing the kept connection.
          if (request.reusedSocket && !isRetry && error.code === 'ECONNRESET') start(true)
          else onError(error)
        })
        .end(call.body)
    }
    start(false)
    return () => {
      isAborted = true
      request.destroy()
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  #request({ path, accept, body }: UpstreamCall): ClientRequest {
    const { baseUrl, key } = this.#upstream
    const open = this.#isSecure ? https.request : http.request
    return open(`${baseUrl}${path}`, {
      method: 'POST',
      agent: this.#agent,
      headers: {
        'content-type': 'application/json',
        'content-length': body.length,
        accept,
        'accept-encoding': 'identity',
        ...(key !== null && { authorization: `Bearer ${key}` }),
      },
    })
  }
}

import type { ServerResponse } from 'node:http'
import type { HeaderList } from './header-list.ts'

/** What raw endpoints need of a response: of Node's `ServerResponse`, which is one, and of the fast path's. */
export interface RawResponse
  extends Pick<
    ServerResponse,
    | 'chunkedEncoding'
    | 'destroyed'
    | 'headersSent'
    | 'socket'
    | 'statusCode'
    | 'writableEnded'
    | 'writableFinished'
    | 'writableNeedDrain'
  > {
  writeHead(status: number, headers: HeaderList): this
  flushHeaders(): void
  /** Of Node's alone, where a chunk cannot go to the socket: `EventStream` writes them there itself. */
  write?(text: string): boolean
  end(text?: string): unknown
  destroy(): unknown
  /** `close` comes once: when the answer has left (on the fast path: when the socket has it), or when it no longer can. */
  on(event: 'close' | 'drain', listener: () => void): unknown
  off(event: 'drain', listener: () => void): unknown
}

/** What a `Connection` needs of its transport: a socket, or a WebSocket of an agent. */
export interface ByteChannel {
  /** The bytes that the other side has not been sent yet. */
  readonly writableLength: number
  on(event: 'end' | 'close', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  write(text: string, encoding: 'utf8'): unknown
  pause(): unknown
  resume(): unknown
  destroy(): unknown
}

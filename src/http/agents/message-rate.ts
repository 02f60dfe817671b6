/** Messages within `WINDOW_MS`. The agent reports a change of its places at most once per turn of its event loop. */
const MESSAGES_MAX = 2_000
/** The length of these messages together. The longest announcement has 256 KiB, and follows a change of the models only. */
const BYTES_MAX = 2 * 1024 * 1024
const WINDOW_MS = 10_000

/** Counts the messages of one control connection. */
export class MessageRate {
  #messages = 0
  #bytes = 0
  #windowStartMs = performance.now()

  /** Counts a message. Returns whether there were too many of late, or too long ones. */
  isFloodAfter(bytes: number): boolean {
    const nowMs = performance.now()
    if (nowMs - this.#windowStartMs >= WINDOW_MS) {
      this.#windowStartMs = nowMs
      this.#messages = 0
      this.#bytes = 0
    }
    this.#bytes += bytes
    return ++this.#messages > MESSAGES_MAX || this.#bytes > BYTES_MAX
  }
}

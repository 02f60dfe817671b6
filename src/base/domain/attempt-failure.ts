/** Why an attempt at a server failed, for the operator. */
export interface AttemptFailure {
  /** Without text of the server. */
  readonly message: string
  /** The HTTP status of the answer; null if there was none. */
  readonly status: number | null
  readonly requestId: string
  readonly customerId: string
  /**
   * Returns what the server said, without addresses, keys and parts of the request; null if nothing is left. Takes
   * milliseconds for a long request.
   */
  readonly serverText: () => string | null
}

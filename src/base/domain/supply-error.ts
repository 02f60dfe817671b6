export type SupplyErrorCode =
  | 'unknown_hoster'
  | 'unknown_model'
  | 'name_taken'
  | 'invalid_url'
  | 'invalid_value'
  | 'unreadable_key'
  | 'unreachable'

/** A refusal of an operator's change to the supply, or of a server whose stored key cannot be opened. The message says what is wrong and what to do. */
export class SupplyError extends Error {
  readonly code: SupplyErrorCode

  constructor(code: SupplyErrorCode, message: string) {
    super(message)
    this.name = 'SupplyError'
    this.code = code
  }
}

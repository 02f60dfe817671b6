export type SupplyErrorCode =
  | 'unknown_hoster'
  | 'unknown_model'
  | 'name_taken'
  | 'invalid_url'
  | 'invalid_value'
  | 'unreadable_key'

/** An operator's change to the supply was refused. The message says what was wrong and what to do. */
export class SupplyError extends Error {
  readonly code: SupplyErrorCode

  constructor(code: SupplyErrorCode, message: string) {
    super(message)
    this.name = 'SupplyError'
    this.code = code
  }
}

import type { CodedSentence, Said } from './said.ts'

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
  /** Empty: the message has no codes. */
  readonly codes: readonly CodedSentence[]
  /** The setting at fault, such as `models[0].id`. */
  readonly setting: string | null

  constructor(code: SupplyErrorCode, message: Said | string, setting: string | null = null) {
    super(typeof message === 'string' ? message : message.text)
    this.name = 'SupplyError'
    this.code = code
    this.codes = typeof message === 'string' ? [] : message.codes
    this.setting = setting
  }
}

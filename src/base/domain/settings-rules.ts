import type { CodedSentence } from './said.ts'

/** Settings as in switchyard.yaml. */
type Settings = Readonly<Record<string, unknown>>

/** A setting that operators can change while the gateway runs. */
export interface ManagedField {
  /** As in switchyard.yaml, such as `routing.attempts_max`. */
  key: string
  about: string
  about_codes: readonly CodedSentence[]
  /** What it must be. */
  type: string
  choices: string[] | null
  value: string | null
  /** Without a file and without a change; null: it has none. */
  fallback: string | null
  origin: 'file' | 'managed' | 'default'
  moves_money: boolean
}

/** Which settings can be managed, and what they may be. */
export interface SettingsRules {
  fields(managed: Settings): ManagedField[]
  /** Undefined: the setting cannot be managed. */
  settingOf(key: string): { readonly movesMoney: boolean; readonly isInFile: boolean } | undefined
  /** What is wrong with settings, together with the file, and the first key at fault; null: nothing. */
  problemOf(managed: Settings): { readonly text: string; readonly key: string | null } | null
  /** Returns settings with another value of one; without it for undefined. */
  withValue(managed: Settings, key: string, value: unknown): Settings
}

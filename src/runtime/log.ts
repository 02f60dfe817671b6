/** The part of a pino logger that the code uses. Modules take only the levels they write, with `Pick`. */
export interface Log {
  debug(facts: object, message: string): void
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

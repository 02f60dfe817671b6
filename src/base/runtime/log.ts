/** The part of a pino logger that the code uses. Modules take only the levels they write, with `Pick`. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

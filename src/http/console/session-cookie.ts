import { headerValues } from '../../runtime/header-values.ts'

/**
 * The cookie of a signed-in browser. SameSite=Strict suffices: the page is the same for everybody, and only its own requests
 * carry the cookie. Not every browser keeps a Secure cookie of plain HTTP, so its name and flag depend on the scheme.
 */
export class SessionCookie {
  readonly #name: string
  readonly #attributes: string

  /** @param isHttps whether browsers reach the gateway by HTTPS */
  constructor(isHttps: boolean) {
    this.#name = isHttps ? '__Host-sy_session' : 'sy_session'
    this.#attributes = `Path=/; HttpOnly; SameSite=Strict${isHttps ? '; Secure' : ''}`
  }

  /** Returns the token; undefined without a cookie, or with several, of which another site may have set one. */
  read(rawHeaders: readonly string[]): string | undefined {
    const prefix = `${this.#name}=`
    const tokens = headerValues(rawHeaders, 'cookie')
      .flatMap(value => value.split(';'))
      .map(pair => pair.trim())
      .filter(pair => pair.startsWith(prefix))
    return tokens.length === 1 ? tokens[0]!.slice(prefix.length) : undefined
  }

  /** Returns the Set-Cookie that keeps a token until `expiresAt`. */
  write(token: string, expiresAt: Date): string {
    return `${this.#name}=${token}; Expires=${expiresAt.toUTCString()}; ${this.#attributes}`
  }

  /** Returns the Set-Cookie that deletes the token. */
  clear(): string {
    return `${this.#name}=; Max-Age=0; ${this.#attributes}`
  }
}

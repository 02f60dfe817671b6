import type { FastifyReply } from 'fastify'
import { headerValues } from '../../base/runtime/header-list.ts'
import type { OpenedSession } from '../../identity/people/sessions.ts'

/**
 * A cookie of the console. SameSite=Strict suffices for sessions: the page is the same for everybody, and only its own
 * requests carry the cookie. Not every browser keeps a Secure cookie of plain HTTP, so its name and flag depend on the
 * scheme.
 */
export class ConsoleCookie {
  readonly #name: string
  readonly #attributes: string

  /**
   * @param name such as `sy_session`
   * @param isHttps whether browsers reach the gateway by HTTPS
   */
  constructor(name: string, isHttps: boolean, sameSite: 'Strict' | 'Lax' = 'Strict') {
    this.#name = isHttps ? `__Host-${name}` : name
    this.#attributes = `Path=/; HttpOnly; SameSite=${sameSite}${isHttps ? '; Secure' : ''}`
  }

  /** Returns the value; undefined without a cookie, or with several, of which another site may have set one. */
  read(rawHeaders: readonly string[]): string | undefined {
    const prefix = `${this.#name}=`
    const [value, ...more] = headerValues(rawHeaders, 'cookie')
      .flatMap(value => value.split(';'))
      .map(pair => pair.trim())
      .filter(pair => pair.startsWith(prefix))
    return more.length === 0 ? value?.slice(prefix.length) : undefined
  }

  /** Returns the Set-Cookie that keeps a value until `expiresAt`. */
  write(value: string, expiresAt: Date): string {
    return `${this.#name}=${value}; Expires=${expiresAt.toUTCString()}; ${this.#attributes}`
  }

  /** Lets the browser keep the token of a session. */
  keep(reply: FastifyReply, { token, expiresAt }: OpenedSession): void {
    reply.header('set-cookie', this.write(token, expiresAt))
  }

  /** Returns the Set-Cookie that deletes the value. */
  clear(): string {
    return `${this.#name}=; Max-Age=0; ${this.#attributes}`
  }
}

import { isIP } from 'node:net'
import { ApiError } from '../base/domain/errors.ts'
import { headerValues } from '../base/runtime/header-list.ts'
import type { GenerationRequest } from './generation-exchange.ts'

/** Names below these are never public, so no website can have them (RFC 6761, 6762, 8375, ICANN 2024). */
const LOCAL_SUFFIXES = ['.localhost', '.local', '.internal', '.home.arpa']

/**
 * The names by which this server may be addressed. A website can resolve its own name to the address of this server
 * and then read answers as its own (DNS rebinding). Its requests still carry its name in the Host header.
 *
 * Addresses, names without a dot and names of local networks are always allowed: a website cannot have them.
 */
export class AllowedHosts {
  readonly #names: ReadonlySet<string>
  readonly #suffixes: readonly string[]
  readonly #allowsAll: boolean
  /** The last Host header that was allowed: most requests repeat it. */
  #lastAllowed = ''

  /** @param names in lower case; `*.example.com` allows all names below it, `*` all names */
  constructor(names: readonly string[]) {
    this.#names = new Set(names)
    this.#suffixes = [...LOCAL_SUFFIXES, ...names.filter(name => name.startsWith('*.')).map(name => name.slice(1))]
    this.#allowsAll = this.#names.has('*')
  }

  /**
   * Throws `invalid_header` unless there is exactly one Host (RFC 9112, 3.2) and it is allowed. HTTP/1.0, which some
   * health checks use, may omit it.
   */
  require({ rawHeaders, httpVersion }: Pick<GenerationRequest, 'rawHeaders' | 'httpVersion'>): void {
    const [host, ...others] = headerValues(rawHeaders, 'host')
    if (host === undefined && httpVersion === '1.0') return
    if (host === undefined || others.length > 0) {
      const fault = host === undefined ? 'is missing' : 'was sent more than once'
      throw invalidHost(`The Host header ${fault}. Send it once.`)
    }
    if (host === this.#lastAllowed) return
    if (!this.#allows(nameOf(host))) {
      const shown = host.length > 100 ? `${host.slice(0, 100)}...` : host
      throw invalidHost(
        `The Host "${shown}" is not a name of this server. Use its address, or add the name to server.allowed_hosts.`,
      )
    }
    this.#lastAllowed = host
  }

  #allows(name: string): boolean {
    if (this.#allowsAll || isIP(name) !== 0 || this.#names.has(name)) return true
    if (!/^[\w.-]*$/.test(name)) return false
    if (!name.includes('.')) return true
    return this.#suffixes.some(suffix => name.endsWith(suffix))
  }
}

/** The host in lower case, without port, brackets and the dot of a fully qualified name. */
function nameOf(host: string): string {
  const name = /^\[([^\]]*)\]/.exec(host)?.[1] ?? host.replace(/:\d*$/, '')
  return name.replace(/\.$/, '').toLowerCase()
}

function invalidHost(message: string): ApiError {
  return new ApiError('invalid_header', { param: 'Host', message })
}

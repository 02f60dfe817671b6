import { promises as dns, type LookupAddress } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { isPublicAddress } from './public-address.ts'

/**
 * Creates a `lookup` for sockets to third parties: it resolves a name once, refuses it when any of its
 * addresses is not public, and passes exactly the checked addresses to connect, so that a second answer of
 * the name server (DNS rebinding) has no effect. Concurrent lookups of a name share one answer. Node does not
 * look up a host that is a literal address; `parseOutboundUrl` has checked it.
 */
export function createPinnedLookup(resolveAll: ResolveAll = askNameServers()): LookupFunction {
  const running = new Map<string, Promise<readonly LookupAddress[]>>()
  const resolve = (hostname: string) => {
    let answer = running.get(hostname)
    if (answer === undefined) {
      answer = resolveAll(hostname).finally(() => running.delete(hostname))
      running.set(hostname, answer)
    }
    return answer
  }
  return (hostname, options, callback) => {
    resolve(hostname).then(
      addresses => {
        const bad = addresses.find(({ address }) => !isPublicAddress(address))
        const wanted = addresses.filter(({ family }) => !options.family || familyNumber(options.family) === family)
        const [first] = wanted
        if (bad) callback(failure('EADDRNOTPUBLIC', `${hostname} resolves to an address that is not public`), '', 0)
        else if (!first) callback(failure('ENOTFOUND', `${hostname} resolves to no address`), '', 0)
        else if (options.all) callback(null, wanted)
        else callback(null, first.address, first.family)
      },
      (error: NodeJS.ErrnoException) => callback(error, '', 0),
    )
  }
}

const familyNumber = (family: number | 'IPv4' | 'IPv6') => (family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : family)

function failure(code: string, message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code })
}

/** Returns every address of a host name. */
type ResolveAll = (hostname: string) => Promise<readonly LookupAddress[]>

/**
 * Time limit of the first of two attempts; the second gets twice as long. Both together fit into the connect
 * time-out of a hoster, 3 s.
 */
const FIRST_TRY_MS = 700

/**
 * Resolves host names from third parties by asking the machine's name servers directly. getaddrinfo would block a
 * thread until it has an answer, and libuv gives it at most two of the four threads of the process: twelve requests
 * to a hoster with silent name servers delayed every other look-up, including those of our own clouds, for a
 * minute. getaddrinfo also reads /etc/hosts and search domains, which public names do not need.
 *
 * @param servers as `address:port`; by default those of the machine, read again each time since they may
 *   change
 */
export function askNameServers(servers?: readonly string[]): ResolveAll {
  return async hostname => {
    const resolver = new dns.Resolver({ timeout: FIRST_TRY_MS, tries: 2 })
    if (servers !== undefined) resolver.setServers(servers)
    const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
    const addresses: LookupAddress[] = []
    let failure: NodeJS.ErrnoException | undefined
    answers.forEach((answer, at) => {
      if (answer.status === 'fulfilled') {
        for (const address of answer.value) addresses.push({ address, family: at === 0 ? 4 : 6 })
        // ENODATA: the name exists but has no address of this family.
      } else if (answer.reason.code !== 'ENODATA') failure ??= answer.reason
    })
    if (addresses.length > 0 || failure === undefined) return addresses
    if (failure.code === 'ENOTFOUND') throw failure
    // Use getaddrinfo's code: an ECONNREFUSED of the name server would look like one of the hoster.
    const text = `the name servers did not resolve ${hostname} (${failure.code})`
    throw Object.assign(new Error(text, { cause: failure }), { code: 'EAI_AGAIN' })
  }
}

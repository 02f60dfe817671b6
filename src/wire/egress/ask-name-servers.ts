import { promises as dns, type LookupAddress } from 'node:dns'

/** Returns every address of a host name. */
export type ResolveAll = (hostname: string) => Promise<readonly LookupAddress[]>

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

import { promises as dns, type LookupAddress } from 'node:dns'

/** Every address a name stands for. */
export type ResolveAll = (hostname: string) => Promise<readonly LookupAddress[]>

/** For the first of two tries; the second has twice as long. Both fit into the 3 s in which a hoster has to be connected to. */
const FIRST_TRY_MS = 700

/**
 * Resolves names that strangers chose, by asking the machine's name servers ourselves. The system's own way (getaddrinfo) takes a thread until it
 * has an answer, and libuv lets it have two of four for the whole process: twelve requests to a hoster whose name servers said nothing kept
 * every other name, our own clouds' too, waiting for a minute. What it knows beside name servers, /etc/hosts and search domains, is nothing a
 * public name needs.
 *
 * @param servers as `address:port`; by default those of the machine, looked up anew each time since they may change
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
        // The name is there, and has no address of this family.
      } else if (answer.reason.code !== 'ENODATA') failure ??= answer.reason
    })
    if (addresses.length > 0 || failure === undefined) return addresses
    if (failure.code === 'ENOTFOUND') throw failure
    // As getaddrinfo calls it: an ECONNREFUSED would be taken for that of the server itself.
    const text = `the name servers did not say what ${hostname} is (${failure.code})`
    throw Object.assign(new Error(text, { cause: failure }), { code: 'EAI_AGAIN' })
  }
}

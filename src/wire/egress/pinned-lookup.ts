import type { LookupAddress } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { askNameServers, type ResolveAll } from './ask-name-servers.ts'
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

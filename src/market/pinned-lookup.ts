import { promises as dns, type LookupAddress } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { isPublicAddress } from './public-address.ts'

/** Every address a name stands for. */
export type ResolveAll = (hostname: string) => Promise<readonly LookupAddress[]>

/**
 * A `lookup` for sockets to hosters: resolves a name once, refuses it when any of its addresses is not public, and hands the
 * very addresses it checked to connect, so that a second answer of the name server (DNS rebinding) never counts.
 * A host that is an address already is not looked up by Node; `checkHosterUrl` has judged it.
 */
export function createPinnedLookup(resolveAll: ResolveAll = resolveBySystem): LookupFunction {
  return (hostname, options, callback) => {
    resolveAll(hostname).then(
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

const resolveBySystem: ResolveAll = hostname => dns.lookup(hostname, { all: true, order: 'verbatim' })

const familyNumber = (family: number | 'IPv4' | 'IPv6') => (family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : family)

function failure(code: string, message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code })
}

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Runs one full garbage collection. Call it when everything is loaded, before the first request. Until its
 * first collection V8 lets the old generation grow to a limit that depends on the machine's memory; afterwards
 * the limit depends on what survived. Measured with 128 connections: 20% less CPU per request and 90 MB less
 * resident memory. Takes about 40 ms.
 */
export function runFullGc(): void {
  setFlagsFromString('--expose-gc')
  const collect: (options: object) => void = runInNewContext('gc')
  setFlagsFromString('--no-expose-gc')
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * One full collection when everything is loaded and before the first request. Until its first one V8 lets the old generation grow
 * to a limit made for the machine, not for what lives in it; afterwards the limit follows what survived. Measured under 128
 * connections: 20 % less CPU per request and 90 MB less resident memory. It takes about 40 ms.
 */
export function collectStartupGarbage(): void {
  setFlagsFromString('--expose-gc')
  const collect: (options: object) => void = runInNewContext('gc')
  setFlagsFromString('--no-expose-gc')
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

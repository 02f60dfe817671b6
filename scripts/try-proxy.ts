// node scripts/try-proxy.ts [NAME...] [--program PATH] [--restarts N]: starts a sample of deploy/ in front of two gateways, on
// loopback, and checks that addresses of clients arrive and cannot be forged, that streams are not buffered, that a gateway that
// stops gets no new requests, and that ten rolling restarts lose no request. NAME is nginx, caddy, haproxy, traefik or
// kubernetes; without one, all of them. PATH is the proxy, or for kubernetes iptables, which needs root.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { freePort } from '../bench/free-port.ts'
import { startCaddy } from './proxies/caddy.ts'
import { checkAddresses, checkDraining, checkNames, checkStreams } from './proxies/check-proxy.ts'
import { startHaproxy } from './proxies/haproxy.ts'
import { startService } from './proxies/kubernetes.ts'
import { startNameServer } from './proxies/name-server.ts'
import { startNginx } from './proxies/nginx.ts'
import type { StartProxy } from './proxies/proxy.ts'
import { measureRollingRestarts } from './proxies/rolling-restarts.ts'
import { startTraefik } from './proxies/traefik.ts'
import { startTwoGateways } from './proxies/two-gateways.ts'

const proxies: Readonly<Record<string, { readonly start: StartProxy; readonly program: string }>> = {
  nginx: { start: startNginx, program: 'nginx' },
  caddy: { start: startCaddy, program: 'caddy' },
  haproxy: { start: startHaproxy, program: 'haproxy' },
  traefik: { start: startTraefik, program: 'traefik' },
  kubernetes: { start: startService, program: 'iptables' },
}
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    program: { type: 'string' },
    restarts: { type: 'string', default: '10' },
    // The second run of this script for a Kubernetes Service, within a network namespace.
    inside: { type: 'boolean', default: false },
  },
})
const names = positionals.length === 0 ? Object.keys(proxies) : positionals
for (const name of names) {
  const proxy = proxies[name]
  if (proxy === undefined) {
    console.error(`There is no sample for "${name}". Name one of ${Object.keys(proxies).join(', ')}, or none for all.`)
    process.exitCode = 1
  } else if (name === 'kubernetes' && !values.inside) {
    const code = await runInNamespace()
    if (code !== 0) process.exitCode = code
  } else {
    await tryProxy(proxy.start, values.program ?? proxy.program, Number(values.restarts))
  }
}

/** The rules of iptables are those of the machine, unless they are written in a namespace of their own. */
async function runInNamespace(): Promise<number> {
  const again = [process.execPath, import.meta.filename, 'kubernetes', '--restarts', values.restarts, '--inside']
  const command = `ip link set lo up && exec ${again.map(word => `'${word}'`).join(' ')}`
  const child = spawn('unshare', ['--net', 'sh', '-c', command], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  return code ?? 1
}

async function tryProxy(start: StartProxy, program: string, restarts: number): Promise<void> {
  await using cleanUp = new AsyncDisposableStack()
  const world = await startTwoGateways(cleanUp)
  const { first, second } = world
  const names = await startNameServer({ 'gateway-1': '127.0.0.1', 'gateway-2': '127.0.0.1' })
  cleanUp.defer(() => names.close())
  const directory = join(world.directory, 'proxy')
  mkdirSync(directory, { mode: 0o755 })
  const running = await start({
    program,
    directory,
    port: await freePort(),
    nodePorts: [first.port, second.port],
    names,
  })
  cleanUp.defer(() => running.close())
  console.log(`${running.version}${running.note === undefined ? '' : ` (${running.note})`}`)
  const { origin } = running
  await check('addresses of clients arrive and cannot be forged', () => checkAddresses(origin, world))
  await check('streams are not buffered', () => checkStreams(origin, world))
  await check('a gateway that stops gets no new requests', () => checkDraining(origin, world))
  await world.startAgent(origin)
  await check('rolling restarts lose no request', async () => {
    const figures = await measureRollingRestarts(running, world, restarts, text => console.log(`  ${text}`))
    const { requests, failed, wholeP99Ms, firstPieceP99Ms, byKind } = figures
    const kinds = [...byKind].map(([kind, count]) => `${count} ${kind}`).join(', ')
    const p99 = `p99 ${wholeP99Ms.toFixed(0)} ms for a whole answer, ${firstPieceP99Ms.toFixed(0)} ms to the first piece of a stream`
    const text = `${requests} requests (${kinds}), ${restarts} rolling restarts, ${failed} failed, ${p99}`
    if (failed > 0) throw new Error(text)
    return text
  })
  if (running.looksNamesUp === true)
    await check('names of gateways are looked up again', () => checkNames(running, world, names))
}

async function check(what: string, run: () => Promise<unknown>): Promise<void> {
  try {
    const note = await run()
    console.log(`ok: ${what}${typeof note === 'string' ? `: ${note}` : ''}`)
  } catch (error) {
    console.log(`FAILED: ${what}: ${(error as Error).message}`)
    process.exitCode = 1
  }
}

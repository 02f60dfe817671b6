import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { eventually } from '../../test/chaos/eventually.ts'
import { readPage } from '../../test/docs/page.ts'
import type { ProxyStart, RunningProxy } from './proxy.ts'

/** The longest delay between a change of the endpoints and that of the rules: `--iptables-min-sync-period` of kube-proxy. */
const SYNC_MS = 1_000
const CHAIN = 'SWITCHYARD-SERVICE'

/**
 * Does what kubelet and kube-proxy do for the Service of the chart: asks each gateway for /readyz as often as the chart says, and writes the rules of
 * iptables by which the kernel gives each new connection to one of the ready gateways. Needs root, and a network namespace of its own.
 *
 * A pod that is deleted leaves a real Service at once. Here it leaves when /readyz fails, which is later.
 */
export async function startService({ program, port, nodePorts }: ProxyStart): Promise<RunningProxy> {
  const run = promisify(execFile)
  const { stdout } = await run(program, ['--version'])
  const { probes } = parse(readPage('deploy/helm/switchyard/values.yaml')) as { probes: { readinessSeconds: number } }
  const ready = new Set<number>()
  /** Those in the rules. */
  let served: readonly number[] = []
  const stopped = new AbortController()

  const writeRules = async () => {
    const endpoints = [...ready].sort()
    const rules = serviceRules(port, endpoints)
    const child = spawn(`${program}-restore`, ['--noflush'], { stdio: ['pipe', 'ignore', 'inherit'] })
    child.stdin.end(rules)
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`${program}-restore ended with ${code}:\n${rules}`)
    served = endpoints
  }
  const probe = async (nodePort: number) => {
    const isReady = await fetch(`http://127.0.0.1:${nodePort}/readyz`, { signal: AbortSignal.timeout(2_000) }).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isReady === ready.has(nodePort)) return
    if (isReady) ready.add(nodePort)
    else ready.delete(nodePort)
    await delay(SYNC_MS)
    await writeRules()
  }
  const watch = async (nodePort: number) => {
    while (!stopped.signal.aborted) {
      await probe(nodePort)
      await delay(probes.readinessSeconds * 1000, undefined, { signal: stopped.signal }).catch(() => {})
    }
  }
  await run(program, ['-t', 'nat', '-N', CHAIN])
  await run(program, [
    '-t',
    'nat',
    '-A',
    'OUTPUT',
    '-d',
    '127.0.0.1',
    '-p',
    'tcp',
    '--dport',
    String(port),
    '-j',
    CHAIN,
  ])
  const watches = nodePorts.map(watch)
  const origin = `http://127.0.0.1:${port}`
  await eventually('the Service has both gateways', () => ready.size === nodePorts.length)
  await eventually('the Service serves', () =>
    fetch(`${origin}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  return {
    version: `a Kubernetes Service by ${stdout.trim()}`,
    origin,
    note: 'rules of the kernel as kube-proxy writes them, without Kubernetes',
    // minReadySeconds of the chart is longer than that takes.
    hasGateway: nodePort => served.includes(nodePort),
    async close() {
      stopped.abort()
      await Promise.all(watches)
    },
  }
}

/** The rules of a Service in the form of iptables-restore: each of n endpoints gets one of n new connections, by chance. */
function serviceRules(port: number, endpoints: readonly number[]): string {
  const jumps = endpoints.map((endpoint, index) => {
    const left = endpoints.length - index
    const chance = left === 1 ? '' : ` -m statistic --mode random --probability ${(1 / left).toFixed(10)}`
    return `-A ${CHAIN} -p tcp --dport ${port}${chance} -j DNAT --to-destination 127.0.0.1:${endpoint}`
  })
  return ['*nat', `:${CHAIN} - [0:0]`, ...jumps, 'COMMIT', ''].join('\n')
}

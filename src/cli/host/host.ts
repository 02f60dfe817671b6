import { type Command, Option } from 'commander'

import packageJson from '../../../package.json' with { type: 'json' }
import { systemClock } from '../../base/runtime/scheduler.ts'
import type { AgentOptions } from '../../market/agent/run-agent.ts'
import type { Hours } from '../../market/agent/schedule.ts'
import { createCommand, createCommandOutput } from '../command.ts'
import { Failure, UsageError } from '../failure.ts'
import type { Output } from '../output.ts'
import { table } from '../table.ts'
import { eventJson, eventText } from './event-text.ts'
import {
  gatewayArgument,
  hoursArgument,
  isLoopback,
  readHostKey,
  readSecretFile,
  slotsArgument,
  tokensPerMinuteArgument,
  upstreamArgument,
  wattsArgument,
} from './host-arguments.ts'

interface HostOptions {
  readonly gateway: readonly string[]
  readonly key?: string
  readonly keyFile?: string
  readonly upstream: string
  readonly upstreamKeyFile?: string
  readonly endpoint?: string
  readonly models?: readonly string[]
  readonly slots: number
  readonly modelSlots?: number
  readonly hours?: readonly Hours[]
  readonly tokensPerMinute?: number
  readonly pauseCommand?: string
  readonly powerLimit?: number
  readonly insecure?: true
  readonly doctor?: true
  readonly json?: true
}

export function hostCommand(): Command {
  return createCommand('host', 'Rent out a model server of this machine through a gateway, as a hoster', [
    'host --gateway https://gateway.example.com --key-file host.key',
    'host --gateway https://gateway.example.com --key-file host.key --upstream http://127.0.0.1:8080/v1 --slots 2',
    'host --gateway https://gateway.example.com --key-file host.key --hours 22:00-07:00 --power-limit 300',
    'host --gateway https://gateway.example.com --key-file host.key --doctor',
  ])
    .requiredOption(
      '--gateway <url>',
      'address of the gateway; repeat it if the nodes have several; required',
      gatewayArgument,
    )
    .addOption(
      new Option('--key <key>', 'key of the hoster; other users of this machine can see it').conflicts('keyFile'),
    )
    .option(
      '--key-file <file>',
      'file with the key of the hoster, readable by its owner only; default: SWITCHYARD_HOST_KEY',
    )
    .option('--upstream <url>', 'model server, up to and including /v1', upstreamArgument, 'http://127.0.0.1:11434/v1')
    .option('--upstream-key-file <file>', 'file with the key of the model server, readable by its owner only')
    .option('--endpoint <id>', 'endpoint of the hoster to serve; default: its only one')
    .option('--models <id...>', 'models of the server to offer; default: all')
    .option('--slots <n>', 'requests at once, 1 to 1024', slotsArgument, 4)
    .option('--model-slots <n>', 'requests at once for each model; default: --slots', slotsArgument)
    .option('--hours <from-to>', 'serve only in these hours, local time; repeatable; default: always', hoursArgument)
    .option('--tokens-per-minute <n>', 'pause when a minute has had this many tokens', tokensPerMinuteArgument)
    .option('--pause-command <command>', 'pause while this shell command exits with a code other than 0')
    .option('--power-limit <watts>', 'pause while the GPUs draw more than this, read with nvidia-smi', wattsArgument)
    .option('--insecure', 'allow an http gateway on another machine: others can read the key and all requests')
    .option('--doctor', 'check the model server, the gateway and the key, and exit')
    .action(async (options: HostOptions) => {
      const output = createCommandOutput(options)
      const agentOptions = agentOptionsOf(options)
      if (options.doctor) await runDoctor(agentOptions, output)
      else await serve(agentOptions, output)
    })
}

function agentOptionsOf(options: HostOptions): AgentOptions {
  const open = options.gateway.find(gateway => gateway.startsWith('http:') && !isLoopback(gateway))
  if (open !== undefined && !options.insecure) {
    throw new UsageError(`${open} has no TLS: others can read the key and all requests. Use https, or add --insecure.`)
  }
  const { upstreamKeyFile } = options
  return {
    gateways: options.gateway,
    key: readHostKey(options),
    endpoint: options.endpoint ?? null,
    upstream: {
      baseUrl: options.upstream,
      key: upstreamKeyFile === undefined ? null : readSecretFile('--upstream-key-file', upstreamKeyFile),
    },
    models: options.models ?? null,
    slots: options.slots,
    slotsPerModel: options.modelSlots ?? options.slots,
    hours: options.hours ?? [],
    tokensPerMinute: options.tokensPerMinute ?? null,
    pauseCommand: options.pauseCommand ?? null,
    powerLimitWatts: options.powerLimit ?? null,
  }
}

async function serve(options: AgentOptions, output: Output): Promise<void> {
  const { runAgent } = await import('../../market/agent/run-agent.ts')
  const agent = runAgent(options, {
    version: packageJson.version,
    clock: systemClock,
    random: Math.random,
    report: event => output.result(eventJson(event), eventText(event)),
  })
  const stopped = Promise.withResolvers<void>()
  let isDraining = false
  const onSignal = () => {
    if (isDraining) stopped.resolve()
    else void agent.drain().then(stopped.resolve)
    isDraining = true
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, onSignal)
  // As the gateway does: a closed terminal does not end it.
  process.on('SIGHUP', () => output.note('SIGHUP is ignored.'))
  const refusal = await Promise.race([stopped.promise, agent.refused])
  agent.stop()
  if (refusal !== undefined) throw new Failure(`The gateway refuses this agent. ${refusal}`)
}

async function runDoctor(options: AgentOptions, output: Output): Promise<void> {
  const { checkAgent } = await import('../../market/agent/check-agent.ts')
  const findings = await checkAgent(options, packageJson.version)
  const failed = findings.filter(({ ok }) => !ok).length
  output.result(
    {
      ok: failed === 0,
      checks: findings.map(({ ok, isWaiting = false, check, detail }) => ({ ok, waiting: isWaiting, check, detail })),
    },
    table(
      ['state', 'check', 'finding'],
      findings.map(({ ok, isWaiting, check, detail }) => [isWaiting ? 'waits' : ok ? 'ok' : 'FAILED', check, detail]),
      '',
    ),
  )
  if (failed > 0) throw new Failure(`${failed} of ${findings.length} checks failed.`)
}

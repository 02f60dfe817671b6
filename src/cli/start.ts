import type { Command } from 'commander'
import { workersArgument } from './arguments.ts'
import { sessionOf, verb } from './verb.ts'

export function startCommand(): Command {
  return verb('start', 'Run the gateway until SIGTERM or Ctrl-C', [
    'start',
    'start --config production.yaml',
    'start --workers 4',
  ])
    .option('--workers <n>', 'nodes to run behind the one port, 1 to 64; without it, server.workers', workersArgument)
    .action(async options => {
      const { config } = sessionOf(options)
      const workers: number = options.workers ?? config.server.workers
      // Loaded here, because the other commands need neither the server nor the time it takes to load it, and nor does a primary.
      if (workers === 1) {
        const { main } = await import('../start/main.ts')
        await main(config)
      } else {
        const { primary } = await import('../start/primary.ts')
        await primary({ ...config, server: { ...config.server, workers } })
      }
    })
}

import type { Command } from 'commander'
import { sessionOf, verb } from './verb.ts'

export function startCommand(): Command {
  return verb('start', 'Run the gateway until SIGTERM or Ctrl-C', ['start', 'start --config production.yaml']).action(
    async options => {
      const { config } = sessionOf(options)
      // Loaded here, because the other commands need neither the server nor the time it takes to load it.
      const { main } = await import('../main.ts')
      await main(config)
    },
  )
}

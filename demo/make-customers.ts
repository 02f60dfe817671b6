import type { ConsoleClient } from './console-client.ts'
import type { DemoGateway } from './gateway.ts'
import { type DemoCustomer, habits } from './traffic.ts'

/** Customers with the same habits. Token audits look at no more than four requests of one customer at a time. */
const OF_EACH_HABIT = 2

/** Makes the scripted customers, with credit and a key each. */
export function makeCustomers(gateway: DemoGateway, operator: ConsoleClient): Promise<DemoCustomer[]> {
  const wanted = habits.flatMap(habit => Array.from({ length: OF_EACH_HABIT }, (_, at) => ({ habit, number: at + 1 })))
  return Promise.all(
    wanted.map(async ({ habit, number }) => {
      const email = `${habit.name}-${number}@simulated.example`
      const { id } = await operator.send<{ id: string }>('POST', 'operator/customers', { email, tier: 'scale' })
      await operator.send('POST', `operator/customers/${id}/grants`, {
        amount_usd: 50,
        reason: 'Credit of the demo',
        is_promotion: false,
      })
      const issued = await gateway.run('key', 'issue', email, '--name', habit.name)
      return { email, key: /sk-sy-\w+/.exec(issued)![0], habits: habit }
    }),
  )
}

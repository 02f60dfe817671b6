import { plural, t } from '@lingui/core/macro'
import type { Overview } from '#api/operator/overview.ts'
import { Panel } from '../../parts/Panel.tsx'
import styles from './operator.module.css'

type Waiting = Overview['waiting']

/** What waits for the decision of an operator, with the way to it. It leaves when nothing waits. */
export function WaitingPanel({ waiting }: { waiting: Waiting }) {
  if (waiting.length === 0) return null
  return (
    <Panel title={t`Waiting for you`}>
      <ul className={styles.alarms}>
        {waiting.map(({ kind, count, link }) => (
          <li key={kind}>
            <a href={link}>{textOf[kind](count)}</a>
          </li>
        ))}
      </ul>
    </Panel>
  )
}

const textOf: Readonly<Record<Waiting[number]['kind'], (count: number) => string>> = {
  models: count => plural(count, { one: '# model of hosters to decide on', other: '# models of hosters to decide on' }),
  hosters_verified: count =>
    plural(count, { one: '# verified hoster to approve', other: '# verified hosters to approve' }),
  hosters_joining: count =>
    plural(count, {
      one: '# hoster that joins and is not verified yet',
      other: '# hosters that join and are not verified yet',
    }),
  appeals: count => plural(count, { one: '# appeal of a hoster to answer', other: '# appeals of hosters to answer' }),
  promotion_reviews: count =>
    plural(count, { one: '# review of promotional earnings', other: '# reviews of promotional earnings' }),
  payouts_prepared: count =>
    plural(count, { one: '# batch of payouts to approve', other: '# batches of payouts to approve' }),
  payouts_approved: count =>
    plural(count, { one: '# approved batch of payouts to pay', other: '# approved batches of payouts to pay' }),
  top_ups: count =>
    plural(count, {
      one: '# top-up to confirm when its money arrives',
      other: '# top-ups to confirm when their money arrives',
    }),
  grants: count =>
    plural(count, {
      one: '# grant for a second operator to approve',
      other: '# grants for a second operator to approve',
    }),
  role_changes: count =>
    plural(count, {
      one: '# role for a second operator to approve',
      other: '# roles for a second operator to approve',
    }),
  people_without_role: count =>
    plural(count, {
      one: '# person who joined and has no role yet',
      other: '# people who joined and have no role yet',
    }),
  invitations: count =>
    plural(count, { one: '# invited operator who has not joined', other: '# invited operators who have not joined' }),
}

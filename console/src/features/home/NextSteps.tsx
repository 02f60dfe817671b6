import { t } from '@lingui/core/macro'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { alertsQuery, consoleConfigQuery, statementQuery } from '../../api/queries.ts'
import { CheckIcon } from '../../parts/icons.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { useKeyNames } from '../../shell/use-key-names.ts'
import { useRights } from '../../shell/use-session.ts'
import styles from './home.module.css'

/** What a new customer does next. Leaves when all is done; shows only steps that the person may take. */
export function NextSteps({ customerId, hasRequest }: { customerId: string; hasRequest: boolean }) {
  const { mayKeys, mayAlerts, mayCredits } = useRights()
  const params = { customerId }
  const keys = useKeyNames()
  const alerts = useQuery({ ...alertsQuery(customerId), enabled: mayAlerts })
  const lowBalance = alerts.data?.data.filter(({ kind }) => kind === 'low_balance')
  const isMailed = lowBalance?.some(({ channel }) => channel === 'email') === true
  const config = useQuery({ ...consoleConfigQuery, enabled: isMailed })
  const statement = useInfiniteQuery({ ...statementQuery(customerId), enabled: mayCredits })
  const lines = statement.data?.pages[0]?.data
  const steps = [
    {
      isShown: mayKeys,
      isDone: keys.data?.data.some(({ is_playground }) => !is_playground),
      text: <Link to="/c/$customerId/keys" params={params} search={{ make: true }}>{t`Make a key`}</Link>,
    },
    {
      isShown: true,
      isDone: hasRequest,
      text: <Link to="/c/$customerId/playground" params={params} search={{}}>{t`Send a request`}</Link>,
    },
    {
      isShown: mayAlerts,
      // Without a mail server, only those to a webhook arrive.
      isDone:
        isMailed && config.data === undefined
          ? undefined
          : lowBalance?.some(({ channel }) => channel !== 'email' || config.data?.has_mail === true),
      text: (
        <Link
          to="/c/$customerId/settings/$tab"
          params={{ ...params, tab: 'alerts' }}
        >{t`Add an alert for a low balance`}</Link>
      ),
    },
    {
      isShown: mayCredits,
      // Old customers have more lines than the first page; they are past this list.
      isDone:
        lines && (statement.hasNextPage || lines.some(({ kind }) => kind !== 'signup_credit' && kind !== 'usage')),
      text: <Link to="/c/$customerId/credits" params={params} search={{ add: true }}>{t`Add credit`}</Link>,
    },
  ].filter(({ isShown }) => isShown)
  // A step that is not known yet must not flash.
  if (steps.some(({ isDone }) => isDone === undefined) || steps.every(({ isDone }) => isDone)) return null
  return (
    <Panel title={t`Next`}>
      <ul className={styles.next}>
        {steps.map(({ text, isDone }, index) => (
          <li key={index} data-is-done={isDone}>
            <span className={styles.nextMark} aria-hidden="true">
              {isDone ? <CheckIcon /> : null}
            </span>
            {text}
            {isDone && <span className="visually-hidden">{t` (done)`}</span>}
          </li>
        ))}
      </ul>
    </Panel>
  )
}

import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Checkbox } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { requestSharingQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import styles from './settings.module.css'

/** Whether the customer shares its requests for audits of hosters. */
export function Sharing() {
  const customerId = useCustomerId()
  const { mayPeople } = useRights()
  const sharing = useQuery(requestSharingQuery(customerId))
  const change = useWrite<boolean>(
    isOn => {
      const path = `customers/${customerId}/request-sharing`
      return isOn ? { method: 'POST', path, body: { consent: true } } : { method: 'DELETE', path }
    },
    {
      areas: ['sharing'],
      done: (_, isOn) => (isOn ? t`Requests are shared.` : t`No request is shared from now on.`),
    },
  )
  return (
    <Panel title={t`Finding hosters that cheat`}>
      <div className={styles.form}>
        <p>{t`A hoster can answer the tests of this platform with the right model, and your requests with a cheaper one. If you share requests, the gateway sends a few of them, with their text, a second time to another server of the same model: one of this platform, the cloud that hosters are compared with, or another hoster. It compares the answers. The platform pays for that.`}</p>
        <p>
          <Trans>
            The text is not stored, and the fields that name your users are left out. Requests with{' '}
            <code>privacy_mode</code>, images, audio or files are never shared.
          </Trans>
        </p>
        <Loaded query={sharing} height={24}>
          {({ is_on: isOn }) => (
            <Checkbox
              label={t`Share some of our requests to find hosters that cheat`}
              description={mayPeople ? undefined : t`Only owners of this customer change this.`}
              checked={isOn}
              disabled={!mayPeople || change.isPending}
              onChange={() => change.mutate(!isOn)}
            />
          )}
        </Loaded>
      </div>
    </Panel>
  )
}

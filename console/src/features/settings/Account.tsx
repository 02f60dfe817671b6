import { t } from '@lingui/core/macro'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { useCustomerId, useSession } from '../../shell/use-session.ts'
import { codeText } from '../../texts/code-text.ts'
import { Sharing } from './Sharing.tsx'
import { StoredData } from './StoredData.tsx'
import { You } from './You.tsx'

/** The person that is signed in, and the customer of the address. */
export function Account() {
  const { memberships } = useSession()
  const customerId = useCustomerId()
  const membership = memberships.find(({ customer_id }) => customer_id === customerId)
  return (
    <>
      <You />
      <Panel title={t`This customer`}>
        <Facts
          facts={{
            [t`E-mail address for bills`]: membership?.email,
            [t`Your role`]: (membership && codeText(membership.role)) ?? t`none: you look as an operator`,
            [t`Id`]: (
              <>
                <code>{customerId}</code> <CopyButton text={customerId} what={t`the id of the customer`} />
              </>
            ),
          }}
        />
      </Panel>
      <Sharing />
      <StoredData customerId={membership?.role === 'owner' ? customerId : null} />
    </>
  )
}

import { t } from '@lingui/core/macro'

/**
 * A screen that the build prepares: the gateway's page for this address already names its files and shows its frame.
 */
export interface ScreenPage {
  /** The path of the route in router.tsx. */
  readonly path: string
  /** The modules that draw it, below `src/`. */
  readonly modules: readonly string[]
  /** The title until the data is there. Null: a page without a frame. */
  readonly title: string | null
}

type Screen = Omit<ScreenPage, 'path'>

const screen = (title: string | null, ...modules: string[]): Screen => ({ title, modules })
const hoster = (title: string, module: string) => screen(title, 'shell/HosterShell.tsx', `features/hoster/${module}`)
const operator = (title: string, module: string) =>
  screen(title, 'shell/OperatorShell.tsx', `features/operator/${module}`)

const accountShell = 'shell/AccountShell.tsx'

/**
 * Every address of router.tsx: see render-frame.tsx. One without parameters stands before one with parameters that it
 * matches too.
 */
const screenOf = {
  '/': screen(null, 'features/outside/SignInPage.tsx'),
  '/sign-in': screen(null, 'features/outside/SignInPage.tsx'),
  '/welcome': screen(null, 'features/outside/Welcome.tsx'),
  '/invite': screen(null, 'features/outside/Invite.tsx'),
  '/sign-up': screen(null, 'features/outside/SignUp.tsx'),
  '/verify': screen(null, 'features/outside/Verify.tsx'),
  '/reset': screen(null, 'features/outside/Reset.tsx'),
  '/oidc': screen(null, 'features/outside/OidcReturn.tsx'),
  '/confirm-email': screen(null, 'features/outside/ConfirmEmail.tsx'),
  '/status': screen(null, 'features/status/Status.tsx'),
  '/c/$customerId': screen(t`Home`, 'features/home/Home.tsx'),
  '/c/$customerId/usage': screen(t`Usage`, 'features/usage/Usage.tsx'),
  '/c/$customerId/activity': screen(t`Activity`, 'features/activity/Activity.tsx'),
  '/c/$customerId/activity/$requestId': screen(
    t`Activity`,
    'features/activity/Activity.tsx',
    'features/activity/Receipt.tsx',
  ),
  '/c/$customerId/keys': screen(t`Keys`, 'features/keys/Keys.tsx'),
  '/c/$customerId/credits': screen(t`Credits`, 'features/credits/Credits.tsx'),
  '/c/$customerId/models': screen(t`Models`, 'features/models/Models.tsx'),
  '/c/$customerId/playground': screen(t`Playground`, 'features/playground/Playground.tsx'),
  '/c/$customerId/settings': screen(t`Settings`, 'features/settings/Settings.tsx'),
  '/c/$customerId/settings/$tab': screen(t`Settings`, 'features/settings/Settings.tsx'),
  '/account': screen(t`Your account`, accountShell, 'features/settings/YourAccount.tsx'),
  '/account/second-factor': screen(t`Add a second factor`, accountShell, 'features/settings/FirstFactor.tsx'),
  '/h/apply': screen(t`Become a hoster`, accountShell, 'features/hoster/Apply.tsx'),
  '/h/$hosterId': hoster(t`Overview`, 'Overview.tsx'),
  '/h/$hosterId/offers': hoster(t`Offers`, 'Offers.tsx'),
  '/h/$hosterId/traffic': hoster(t`Traffic`, 'Traffic.tsx'),
  '/h/$hosterId/trust': hoster(t`Trust`, 'Trust.tsx'),
  '/h/$hosterId/earnings': hoster(t`Earnings`, 'Earnings.tsx'),
  '/h/$hosterId/connect': hoster(t`Connect`, 'Connect.tsx'),
  '/h/$hosterId/settings': hoster(t`Settings`, 'HosterSettings.tsx'),
  '/operator': operator(t`Overview`, 'Overview.tsx'),
  '/operator/customers': operator(t`Customers`, 'Customers.tsx'),
  '/operator/customers/$customerId': operator(t`Customer`, 'Customer.tsx'),
  '/operator/models': operator(t`Models`, 'Models.tsx'),
  '/operator/prices': operator(t`Prices`, 'Prices.tsx'),
  '/operator/providers': operator(t`Providers`, 'Providers.tsx'),
  '/operator/hosters': operator(t`Hosters`, 'Hosters.tsx'),
  '/operator/hosters/$hosterId': operator(t`Hoster`, 'Hoster.tsx'),
  '/operator/payouts': operator(t`Payouts`, 'Payouts.tsx'),
  '/operator/payouts/$batchId': operator(t`Batch of payouts`, 'PayoutBatch.tsx'),
  '/operator/money': operator(t`Money`, 'Money.tsx'),
  '/operator/requests': operator(t`Requests`, 'Requests.tsx'),
  '/operator/requests/$requestId': screen(
    t`Requests`,
    'shell/OperatorShell.tsx',
    'features/operator/Requests.tsx',
    'features/operator/OperatorReceipt.tsx',
  ),
  '/operator/usage': operator(t`Usage`, 'Usage.tsx'),
  '/operator/log': operator(t`Log`, 'Log.tsx'),
  '/operator/settings': operator(t`Settings`, 'OperatorSettings.tsx'),
  '/operator/system': operator(t`System`, 'System.tsx'),
  '/operator/people': operator(t`People`, 'People.tsx'),
  '/operator/grants': operator(t`Grants`, 'Grants.tsx'),
}

export type ScreenAddress = keyof typeof screenOf

export const screens: readonly ScreenPage[] = Object.entries(screenOf).map(([path, rest]) => ({ path, ...rest }))

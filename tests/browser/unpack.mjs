// Unpacks the browser of the npm package into the folder that TMPDIR names, and prints its path.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(`${process.argv[2]}/`);
const { default: chromium } = await import(pathToFileURL(resolve("@sparticuz/chromium")));
console.log(await chromium.executablePath());

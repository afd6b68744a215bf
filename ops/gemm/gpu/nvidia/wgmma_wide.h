/* SPDX-License-Identifier: MIT
 *
 * rfg_wgmma.h for the widths that only gemm_tile_wgmma has. */
#define RFG_WG_R24        RFG_WG_R16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define RFG_WG_R28        RFG_WG_R24 ", %24, %25, %26, %27"
#define RFG_WG_R36        RFG_WG_R32 ", %32, %33, %34, %35"
#define RFG_WG_R40        RFG_WG_R32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define RFG_WG_R44        RFG_WG_R40 ", %40, %41, %42, %43"
#define RFG_WG_R48        RFG_WG_R40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define RFG_WG_R52        RFG_WG_R48 ", %48, %49, %50, %51"
#define RFG_WG_R56        RFG_WG_R48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define RFG_WG_R60        RFG_WG_R56 ", %56, %57, %58, %59"
#define RFG_WG_R72        RFG_WG_R64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define RFG_WG_R80        RFG_WG_R72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define RFG_WG_R88        RFG_WG_R80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define RFG_WG_R96        RFG_WG_R88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define RFG_WG_R104       RFG_WG_R96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define RFG_WG_R112       RFG_WG_R104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define RFG_WG_R120       RFG_WG_R112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define RFG_WG_R128       RFG_WG_R120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define RFG_WG_D24(c, d)  RFG_WG_D16(c, d), RFG_WG_D8(c, (d) + 16)
#define RFG_WG_D28(c, d)  RFG_WG_D24(c, d), RFG_WG_D4(c, (d) + 24)
#define RFG_WG_D36(c, d)  RFG_WG_D32(c, d), RFG_WG_D4(c, (d) + 32)
#define RFG_WG_D40(c, d)  RFG_WG_D32(c, d), RFG_WG_D8(c, (d) + 32)
#define RFG_WG_D44(c, d)  RFG_WG_D40(c, d), RFG_WG_D4(c, (d) + 40)
#define RFG_WG_D48(c, d)  RFG_WG_D40(c, d), RFG_WG_D8(c, (d) + 40)
#define RFG_WG_D52(c, d)  RFG_WG_D48(c, d), RFG_WG_D4(c, (d) + 48)
#define RFG_WG_D56(c, d)  RFG_WG_D48(c, d), RFG_WG_D8(c, (d) + 48)
#define RFG_WG_D60(c, d)  RFG_WG_D56(c, d), RFG_WG_D4(c, (d) + 56)
#define RFG_WG_D72(c, d)  RFG_WG_D64(c, d), RFG_WG_D8(c, (d) + 64)
#define RFG_WG_D80(c, d)  RFG_WG_D72(c, d), RFG_WG_D8(c, (d) + 72)
#define RFG_WG_D88(c, d)  RFG_WG_D80(c, d), RFG_WG_D8(c, (d) + 80)
#define RFG_WG_D96(c, d)  RFG_WG_D88(c, d), RFG_WG_D8(c, (d) + 88)
#define RFG_WG_D104(c, d) RFG_WG_D96(c, d), RFG_WG_D8(c, (d) + 96)
#define RFG_WG_D112(c, d) RFG_WG_D104(c, d), RFG_WG_D8(c, (d) + 104)
#define RFG_WG_D120(c, d) RFG_WG_D112(c, d), RFG_WG_D8(c, (d) + 112)
#define RFG_WG_D128(c, d) RFG_WG_D120(c, d), RFG_WG_D8(c, (d) + 120)
RFG_WG_DEFINE(48, 24, "24", "25", "26")
RFG_WG_DEFINE(56, 28, "28", "29", "30")
RFG_WG_DEFINE(72, 36, "36", "37", "38")
RFG_WG_DEFINE(80, 40, "40", "41", "42")
RFG_WG_DEFINE(88, 44, "44", "45", "46")
RFG_WG_DEFINE(96, 48, "48", "49", "50")
RFG_WG_DEFINE(104, 52, "52", "53", "54")
RFG_WG_DEFINE(112, 56, "56", "57", "58")
RFG_WG_DEFINE(120, 60, "60", "61", "62")
RFG_WG_DEFINE(144, 72, "72", "73", "74")
RFG_WG_DEFINE(160, 80, "80", "81", "82")
RFG_WG_DEFINE(176, 88, "88", "89", "90")
RFG_WG_DEFINE(192, 96, "96", "97", "98")
RFG_WG_DEFINE(208, 104, "104", "105", "106")
RFG_WG_DEFINE(224, 112, "112", "113", "114")
RFG_WG_DEFINE(240, 120, "120", "121", "122")
RFG_WG_DEFINE(256, 128, "128", "129", "130")
